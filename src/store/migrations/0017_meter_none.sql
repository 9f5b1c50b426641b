-- "No meter" was the number behind the last meter: of a disk that costs nothing now, of a line that
-- gives money back. -1 now, so that a new meter can have that number.
UPDATE fund_disk SET meter = -1 WHERE meter = 6;
UPDATE fund_disk SET before = -1 WHERE before = 6;
DROP TRIGGER statement_line_fixed;
UPDATE statement_line SET meter = -1 WHERE meter = 6;
CREATE TRIGGER statement_line_fixed BEFORE UPDATE ON statement_line
    BEGIN SELECT RAISE(ABORT, 'a closed statement never changes'); END;
