"""What a recipe says: its settings, with their losses and optimisers."""
