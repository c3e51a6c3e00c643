"""The smallest workbooks that Excel's form allows, written without a library."""

import io
import zipfile
from xml.sax.saxutils import escape

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def workbook(*sheets) -> bytes:
    """The bytes of an .xlsx file with these sheets, S1, S2, ..., each a list of rows of texts and numbers."""
    numbers = range(1, len(sheets) + 1)
    types = "".join(
        f'<Override PartName="/xl/worksheets/sheet{n}.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
        for n in numbers
    )
    files = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/xl/workbook.xml" '
        f'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>{types}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r" '
        f'Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>'
        + "".join(f'<sheet name="S{n}" sheetId="{n}" r:id="r{n}"/>' for n in numbers)
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        + "".join(
            f'<Relationship Id="r{n}" Type="{RELATIONS}/worksheet" Target="worksheets/sheet{n}.xml"/>'
            for n in numbers
        )
        + "</Relationships>",
    }
    for n, rows in zip(numbers, sheets, strict=True):
        body = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
        files[f"xl/worksheets/sheet{n}.xml"] = (
            f'<worksheet xmlns="{MAIN}"><sheetData>{body}</sheetData></worksheet>'
        )
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name, text in files.items():
            file.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')
    return data.getvalue()


def _cell(value) -> str:
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return f"<c><v>{value}</v></c>"
