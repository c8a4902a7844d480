"""Does a whole job give the failure-free answer under this seed's crashes, delays and half-finished writes?

    seed → conditions (how fast, how broken) → one world → the production coordinator and slots → checkers

Reading order: `world` (time and processes), `network`, `background` and `storage` (the seams), `cluster` (who lives),
`faults`, `milestones` (when), `lives` (a job that is started again), `jobs` and `connectors` (what runs), `lineage`
and `checkers` (what must hold), `run` (one seed), `campaign` (many). `user_jobs`: a user's own job.
"""
