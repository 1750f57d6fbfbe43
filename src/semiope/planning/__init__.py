"""Which questions to ask: planning annotations under a budget."""
