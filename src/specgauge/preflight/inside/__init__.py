"""Programs for the server's own Python: their text goes to it, nothing of ours is imported there.

Python 3.8 and newer, standard library at module level; each prints one marked line of JSON.
"""
