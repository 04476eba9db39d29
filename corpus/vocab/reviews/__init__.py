"""Review classification."""
