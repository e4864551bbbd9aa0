"""The live view in a terminal: the dashboard's figures over SSH, in both ways to run."""
