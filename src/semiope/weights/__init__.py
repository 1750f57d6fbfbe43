"""How much to listen to whom: split weights and the augmented behaviour policy."""
