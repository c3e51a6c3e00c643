"""FAQs as pages: by the markup of search engines, or by headings, tables and lists."""
