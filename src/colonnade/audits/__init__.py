"""Audits: how much of the proved ε an observer can be seen to use, by running the real code on data of nobody."""
