"""Units of time, money, weight, length and data, in seven languages: "days", "EUR", "kg"."""

from __future__ import annotations

from rejoinder.text.dates import without_accents

# A kind a block, a unit a line, its first word naming it.
_KINDS = """
second seconds sec secs sekunde sekunden seconde secondes segundos secondi seconden
minute minutes mins minuten minuto minutos minuti minuut
hour hours hrs stunde stunden heure heures hora horas ora ore uur uren
day days tag tage tagen jour jours día días giorno giorni dia dias dag dagen
week weeks woche wochen semaine semaines semana semanas settimana settimane weken
month months monat monate monaten mois meses mese mesi mês maand maanden
year years jahr jahre jahren ans année années año años anno anni ano anos jaar

euro euros eur
dollar dollars usd
pound pounds gbp
franc francs franken chf
yen jpy
zloty pln
rupee rupees inr

gram grams gramm gramme grammes gramo gramos grammo grammi gram
kilo kilos kilogram kilograms kilogramm kg
ounce ounces oz
lb lbs

millimetre millimetres millimeter millimeters mm
centimetre centimetres centimeter centimeters cm zentimeter
metre metres meter meters mètre mètres metros metri
kilometre kilometres kilometer kilometers km
inch inches
mile miles

kb kilobyte kilobytes
mb megabyte megabytes
gb gigabyte gigabytes
tb terabyte terabytes
"""
_UNITS = {
    form: (kind, line.split()[0])
    for kind, block in enumerate(_KINDS.split("\n\n"))
    for line in block.strip().splitlines()
    for word in line.split()
    for form in (word, without_accents(word))
}


def units_of(words: list[str]) -> dict[int, set[str]]:
    """Return the units among some words, by their kinds."""
    units: dict[int, set[str]] = {}
    for word in words:
        if word in _UNITS:
            kind, unit = _UNITS[word]
            units.setdefault(kind, set()).add(unit)
    return units


def are_other_units(words: list[str], others: list[str]) -> bool:
    """Return whether units of one kind stand among both words, and none of them among both."""
    units = units_of(words)
    return any(
        units[kind].isdisjoint(found) for kind, found in units_of(others).items() if kind in units
    )
