"""An index in Milvus: milvus-lite's file in its folder, or the collections of a server."""
