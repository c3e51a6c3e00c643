"""What goes over the wire: requests, answers and their descriptions, in all their forms."""
