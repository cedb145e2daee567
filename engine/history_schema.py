"""The tables of the database of recorded runs: migration n leads from version n-1 to n and is never changed."""

HISTORY: tuple[tuple[str, ...], ...] = (
    (
        # Small rows, so that the list of runs is read quickly; what a run needs to be shown again lies apart.
        """CREATE TABLE runs (
            id TEXT PRIMARY KEY,
            flow TEXT NOT NULL,
            started REAL NOT NULL,           -- seconds since the epoch
            status TEXT NOT NULL,            -- running, finished, failed, stopped, budget, crashed
            seconds REAL,                    -- wall time, NULL while it runs
            requests INTEGER NOT NULL DEFAULT 0,
            in_tokens INTEGER NOT NULL DEFAULT 0,
            cached_in_tokens INTEGER NOT NULL DEFAULT 0,
            out_tokens INTEGER NOT NULL DEFAULT 0,
            reasoning_out_tokens INTEGER NOT NULL DEFAULT 0,
            cost TEXT NOT NULL DEFAULT '0',  -- exact decimal
            provenance TEXT NOT NULL DEFAULT 'free',
            pid INTEGER NOT NULL,            -- the process that records it, with the mark of its start
            process_mark TEXT NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX runs_by_start ON runs (started)",
        "CREATE INDEX runs_by_status ON runs (status)",
        """CREATE TABLE run_inputs (
            run_id TEXT PRIMARY KEY,
            flow_text TEXT NOT NULL,         -- the flow as it was run
            inputs TEXT NOT NULL,            -- JSON object: key -> list of values
            profiles TEXT NOT NULL           -- JSON object: agent -> profile
        ) WITHOUT ROWID""",
        """CREATE TABLE events (
            run_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            event TEXT NOT NULL,             -- JSON
            PRIMARY KEY (run_id, seq)
        ) WITHOUT ROWID""",
        """CREATE TABLE requests (
            run_id TEXT NOT NULL,
            seq INTEGER NOT NULL,            -- that of the event
            ts REAL NOT NULL,                -- end, seconds since the epoch
            agent TEXT NOT NULL,
            profile TEXT NOT NULL,
            model TEXT NOT NULL,
            requests INTEGER NOT NULL,       -- with repeats; 0 for an answer from the cache
            in_tokens INTEGER NOT NULL,
            cached_in_tokens INTEGER NOT NULL,
            out_tokens INTEGER NOT NULL,
            reasoning_out_tokens INTEGER NOT NULL,
            cost TEXT NOT NULL,
            provenance TEXT NOT NULL,
            seconds REAL NOT NULL,
            first_token REAL,                -- seconds, NULL when unknown
            finish_reason TEXT NOT NULL,
            PRIMARY KEY (run_id, seq)
        ) WITHOUT ROWID""",
        # Both cover the grouped questions of a dashboard, so that those never read the table itself.
        """CREATE INDEX requests_by_time ON requests
            (ts, model, requests, in_tokens, cached_in_tokens, out_tokens, reasoning_out_tokens,
             cost, provenance, seconds)""",
        """CREATE INDEX requests_by_model ON requests
            (model, ts, requests, in_tokens, cached_in_tokens, out_tokens, reasoning_out_tokens,
             cost, provenance, seconds)""",
    ),
    (
        # How a run came from another one.
        "ALTER TABLE runs ADD COLUMN origin TEXT NOT NULL DEFAULT ''",  # resume, from, repeat
        "ALTER TABLE runs ADD COLUMN parent TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE runs ADD COLUMN edited INTEGER NOT NULL DEFAULT 0",
        # Values, turns and answers, each once per run.
        """CREATE TABLE blobs (
            run_id TEXT NOT NULL,
            id INTEGER NOT NULL,
            data TEXT NOT NULL,              -- JSON
            PRIMARY KEY (run_id, id)
        ) WITHOUT ROWID""",
        # What a run has reached, with its contexts.
        """CREATE TABLE contexts (
            run_id TEXT NOT NULL,
            number INTEGER NOT NULL,
            reached TEXT NOT NULL,
            step INTEGER NOT NULL,
            agent TEXT NOT NULL,
            data TEXT NOT NULL,              -- JSON
            PRIMARY KEY (run_id, number)
        ) WITHOUT ROWID""",
        "ALTER TABLE events ADD COLUMN context INTEGER",  # the context that holds the values of an event
        # Answers of agents that are not asked again.
        """CREATE TABLE frozen (
            flow TEXT NOT NULL,
            agent TEXT NOT NULL,
            data TEXT NOT NULL,              -- JSON
            PRIMARY KEY (flow, agent)
        ) WITHOUT ROWID""",
    ),
    (
        # Sums for questions over long times; they take the place of the index that was there for them.
        "DROP INDEX requests_by_model",
        """CREATE TABLE hours_of_use (
            hour INTEGER NOT NULL,           -- hours since the epoch
            flow TEXT NOT NULL,
            agent TEXT NOT NULL,
            profile TEXT NOT NULL,
            model TEXT NOT NULL,
            requests INTEGER NOT NULL,
            in_tokens INTEGER NOT NULL,
            cached_in_tokens INTEGER NOT NULL,
            out_tokens INTEGER NOT NULL,
            reasoning_out_tokens INTEGER NOT NULL,
            cost TEXT NOT NULL,              -- exact decimal
            provenance TEXT NOT NULL,
            seconds REAL NOT NULL,
            PRIMARY KEY (hour, flow, agent, profile, model)
        ) WITHOUT ROWID""",
        "CREATE TABLE stale_hours (hour INTEGER PRIMARY KEY)",  # hours with requests that are not added up yet
        "INSERT INTO stale_hours SELECT DISTINCT CAST(ts / 3600 AS INTEGER) FROM requests",
    ),
    (
        # The flow's file or sample: what lies beside it is needed to go on.
        "ALTER TABLE run_inputs ADD COLUMN flow_origin TEXT NOT NULL DEFAULT ''",
    ),
    (
        # Texts of any size lie apart from the keys: where they are one tree, whoever looks for a key next to a text of
        # 50 MB reads it whole, each time.
        "ALTER TABLE run_inputs RENAME TO old_run_inputs",
        """CREATE TABLE run_inputs (
            run_id TEXT PRIMARY KEY,
            flow_text TEXT NOT NULL,
            inputs TEXT NOT NULL,
            profiles TEXT NOT NULL,
            flow_origin TEXT NOT NULL DEFAULT ''
        )""",
        "INSERT INTO run_inputs SELECT run_id, flow_text, inputs, profiles, flow_origin FROM old_run_inputs",
        "DROP TABLE old_run_inputs",
        "ALTER TABLE events RENAME TO old_events",
        """CREATE TABLE events (
            run_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            event TEXT NOT NULL,
            context INTEGER,
            PRIMARY KEY (run_id, seq)
        )""",
        "INSERT INTO events SELECT run_id, seq, event, context FROM old_events",
        "DROP TABLE old_events",
        "ALTER TABLE blobs RENAME TO old_blobs",
        """CREATE TABLE blobs (
            run_id TEXT NOT NULL,
            id INTEGER NOT NULL,
            data TEXT NOT NULL,
            PRIMARY KEY (run_id, id)
        )""",
        "INSERT INTO blobs SELECT run_id, id, data FROM old_blobs",
        "DROP TABLE old_blobs",
        "ALTER TABLE contexts RENAME TO old_contexts",
        """CREATE TABLE contexts (
            run_id TEXT NOT NULL,
            number INTEGER NOT NULL,
            reached TEXT NOT NULL,
            step INTEGER NOT NULL,
            agent TEXT NOT NULL,
            data TEXT NOT NULL,
            PRIMARY KEY (run_id, number)
        )""",
        "INSERT INTO contexts SELECT run_id, number, reached, step, agent, data FROM old_contexts",
        "DROP TABLE old_contexts",
    ),
    (
        # One record for each request, also for those that failed.
        "ALTER TABLE requests ADD COLUMN started REAL NOT NULL DEFAULT 0",  # seconds since the epoch, 0 when unknown
        "ALTER TABLE requests ADD COLUMN waited REAL NOT NULL DEFAULT 0",  # seconds
        "ALTER TABLE requests ADD COLUMN error TEXT NOT NULL DEFAULT ''",  # class of the failure
        "ALTER TABLE requests ADD COLUMN details TEXT NOT NULL DEFAULT '{}'",  # JSON: the rest of RequestRecord
    ),
    (
        # How requests ended and how quickly, hour by hour (engine/history_answers.py).
        """CREATE TABLE hours_of_answers (
            hour INTEGER NOT NULL,           -- hours since the epoch
            flow TEXT NOT NULL,
            agent TEXT NOT NULL,
            profile TEXT NOT NULL,
            answered INTEGER NOT NULL,
            failed INTEGER NOT NULL,
            cut_off INTEGER NOT NULL,
            reused INTEGER NOT NULL,
            reused_tokens INTEGER NOT NULL,
            first_token BLOB NOT NULL,       -- counts by bucket
            speed BLOB NOT NULL,
            seconds BLOB NOT NULL,
            PRIMARY KEY (hour, flow, agent, profile)
        ) WITHOUT ROWID""",
        "INSERT OR IGNORE INTO stale_hours SELECT DISTINCT CAST(ts / 3600 AS INTEGER) FROM requests",
    ),
)
"""All of them."""
