"""What is true now: read models and the follower that feeds them."""
