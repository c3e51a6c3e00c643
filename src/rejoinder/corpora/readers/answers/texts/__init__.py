"""FAQs as plain text: their marks, their paragraphs, and the signs that a text is one."""
