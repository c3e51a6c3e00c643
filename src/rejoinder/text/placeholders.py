"""Placeholders of canned replies: what a help desk fills in before a reply is sent."""

from __future__ import annotations

from rejoinder.patterns import search_pattern

_DIRECTIVE = r"%fill[a-z]{0,20}:[^%\n]{0,200}%|\{[a-z]{2,20}:[^{}\n]{0,200}\}"
PLACEHOLDER = search_pattern(
    r"\{\{\{[^{}]{0,200}\}\}\}|\{\{[^{}]*\}\}|\{%[^%]*%\}|<%[^%]*%>"
    rf"|{_DIRECTIVE}|[#%$]\{{[^{{}}\n]{{1,80}}\}}|\{{[!$][A-Za-z_][\w.:]{{0,80}}\}}"
    r"|\{[A-Za-z_][\w .-]{0,40}\}|<[A-Za-z_][\w .-]{0,40}>"
    r"|\[\[[^\[\]\n]{1,80}\]\]|\[[A-Z][\w .-]{0,40}\]|\u00ab[A-Za-z_]\w{0,40}\u00bb"
    r"|%[A-Za-z_]\w*%|\$\{?[A-Za-z_]\w*\}?"
)
"""Placeholders of a reply: {{x}}, {{{x}}}, {x}, {$x}, {!X.Y}, #{x}, %{x}, ${a.b}, <x>, [X], [[x]],
%x%, $x, "x" in angle quotes, and the fields of text expanders: %filltext:..%, {formtext: ..}."""
