"""The judge: requests to an LLM that grades, replies read strictly, and scores (evaluation.md 16 to 19)."""
