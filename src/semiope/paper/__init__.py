"""The paper's tables and figures, one file each; `semiope reproduce` runs them."""
