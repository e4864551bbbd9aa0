"""What the verdicts' codes mean and what to do about them."""
