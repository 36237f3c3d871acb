"""What every HTML page is made of: template, style, charts and pictures."""
