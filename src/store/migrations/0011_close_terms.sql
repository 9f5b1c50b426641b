CREATE INDEX transfer_grp ON transfer(grp); -- the sources of a term
