"""Fuzzing: whole scenarios drawn at random, played in virtual time, judged by what must always hold."""
