"""Texts with their intents, read from common file formats and from exports of other tools."""
