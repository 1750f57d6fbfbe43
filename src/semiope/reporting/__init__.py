"""Results made readable: terminal tables and a page to hand on."""
