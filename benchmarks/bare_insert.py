"""The peer of `operations.py`: the same insert, as durable, in FastAPI and SQLAlchemy; no identity, policy or ledger."""

import sys
import uuid

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import Column, MetaData, String, Table, create_engine, event, insert
from sqlalchemy.pool import QueuePool


class Note(BaseModel):
    text: str


class Noted(BaseModel):
    id: str
    text: str


metadata = MetaData()
notes = Table("notes", metadata, Column("id", String(32), primary_key=True), Column("text", String(200), nullable=False))
engine = create_engine(f"sqlite:///{sys.argv[1]}", poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=60)
app = FastAPI()


@event.listens_for(engine, "connect")
def configure(connection, _record):
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


@app.post("/v1/notes")
def create(note: Note) -> Noted:
    noted = Noted(id=uuid.uuid4().hex, text=note.text)
    with engine.begin() as connection:
        connection.execute(insert(notes).values(id=noted.id, text=noted.text))
    return noted


if __name__ == "__main__":
    metadata.create_all(engine)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", loop="uvloop", http="httptools")
