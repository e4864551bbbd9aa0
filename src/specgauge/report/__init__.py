"""From a summary to tables, figures, a page and a terminal: shows, never computes anew."""
