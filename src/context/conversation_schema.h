// conversation_schema.h: the tables of a ConversationStore.
//
// A change of a table, or of what search_text() makes of a text, is a new version. Plain constants.
#pragma once
#include "context/sqlite.h"

namespace quire::context {

// message_text keeps no text of its own: its rows are the messages'.
inline constexpr DatabaseKind kConversationDatabase = {.what = "conversations",
                                                       .application_id = 0x51724376,  // "QrCv"
                                                       .version = 1,
                                                       .schema = R"sql(
CREATE TABLE conversations(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  owner TEXT NOT NULL,
  handle TEXT NOT NULL UNIQUE,
  name TEXT,
  metadata TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  changed_ms INTEGER NOT NULL,
  head INTEGER REFERENCES messages(id),
  UNIQUE(owner, name));
CREATE TABLE messages(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  conversation INTEGER NOT NULL REFERENCES conversations(id),
  parent INTEGER REFERENCES messages(id),
  role TEXT NOT NULL,
  content TEXT NOT NULL,
  fields TEXT,
  tokens BLOB,
  model TEXT NOT NULL,
  created_ms INTEGER NOT NULL);
CREATE INDEX messages_of ON messages(conversation);
CREATE INDEX messages_after ON messages(parent);
CREATE TABLE handles(
  owner TEXT NOT NULL,
  handle TEXT NOT NULL,
  message INTEGER NOT NULL REFERENCES messages(id),
  PRIMARY KEY(owner, handle)) WITHOUT ROWID;
CREATE INDEX handles_of ON handles(message);
CREATE TABLE views(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  conversation INTEGER NOT NULL REFERENCES conversations(id),
  head INTEGER NOT NULL REFERENCES messages(id),
  policy TEXT NOT NULL,
  active INTEGER NOT NULL,
  created_ms INTEGER NOT NULL);
CREATE INDEX views_of ON views(conversation);
CREATE TABLE view_items(
  view INTEGER NOT NULL REFERENCES views(id),
  position INTEGER NOT NULL,
  first INTEGER NOT NULL REFERENCES messages(id),
  last INTEGER NOT NULL REFERENCES messages(id),
  summary TEXT,
  PRIMARY KEY(view, position)) WITHOUT ROWID;
CREATE VIRTUAL TABLE message_text USING fts5(
  words, bigrams, content='', tokenize='unicode61 remove_diacritics 2');
)sql"};

}  // namespace quire::context
