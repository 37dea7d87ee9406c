"""What undo needs to give back what a call changed."""
