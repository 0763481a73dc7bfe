"""The Omni-DuplexEval evaluation client: sessions, artifacts, retries. Imports no other package of this project."""
