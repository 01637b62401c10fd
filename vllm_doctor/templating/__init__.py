"""The expressions and texts of rules: parse, evaluate, render, and the filters they use."""
