"""The graphs of Milvus, which name the candidates of an approximate search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rejoinder.errors import InputError
from rejoinder.stores.database.candidates import DatabaseCandidates, GraphQuestion, left_out
from rejoinder.stores.database.segment import StoredRow
from rejoinder.stores.manifest import ApproximateRecord
from rejoinder.stores.milvus.collections import MOST_AT_ONCE, Collections
from rejoinder.stores.milvus.segments import Collected
from rejoinder.stores.milvus.values import condition, token_of


class MilvusCandidates(DatabaseCandidates):
    """Searches by the graphs of an index's collections; the effort is Milvus' `ef`."""

    most_effort = MOST_AT_ONCE

    def __init__(self, collections: Collections, record: ApproximateRecord) -> None:
        super().__init__(record)
        self._collections = collections

    def check(self, *, content: bool) -> None:
        """A collection that is loaded has its graph."""

    def _ask(
        self, questions: Sequence[GraphQuestion], effort: int
    ) -> list[Mapping[int, StoredRow]]:
        """Return the rows that answer each question, found with a search effort."""
        return [self._answer(question, effort) for question in questions]

    def _answer(self, question: GraphQuestion, effort: int) -> Mapping[int, StoredRow]:
        rows = question.rows
        segment = question.segment
        assert isinstance(segment, Collected)
        if question.count > self.most_effort:
            raise InputError(
                f"{question.count} candidates are asked for; Milvus finds {self.most_effort:,} at"
                " most"
            )
        conditions = [
            condition([token_of(field, text) for text in texts])
            for field, texts in rows.conditions or ()
        ]
        if len(gone := left_out(rows)):
            conditions.append(f"row not in {gone.tolist()}")
        # A filter leaves most of what is in sight out.
        wanted = math.ceil(max(effort, question.count) * rows.count / max(1, rows.present))
        [hits] = self._collections.ask(
            "search",
            segment.collection,
            question.vector[None],
            anns_field="vector",
            limit=question.count,
            filter=" and ".join(conditions),
            output_fields=segment.columns,
            search_params={"params": {"ef": min(wanted, self.most_effort)}},
        )
        return segment.rows_from([hit["entity"] | {"row": hit["row"]} for hit in hits])
