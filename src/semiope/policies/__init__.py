"""Who acts: policies, and the behaviour policy where nobody logged it."""
