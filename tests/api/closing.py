"""What the tests of a month's end share: usage of a past month put into a store at rest, and readers of
amounts and documents."""
import datetime, decimal, json, os, sqlite3, subprocess, tempfile
import xml.etree.ElementTree as ET

SHANGHAI = datetime.timezone(datetime.timedelta(hours=8))


def past_month(back=2):
    now = datetime.datetime.now(SHANGHAI)
    n = now.year * 12 + now.month - 1 - back
    return n // 12, n % 12 + 1


def used(path, project, rows, back=2):
    """rows: (sku, card-seconds), each on an instance of its own; nothing of it is posted. The month."""
    year, month = past_month(back)
    start = int(datetime.datetime(year, month, 2, tzinfo=SHANGHAI).timestamp())
    with sqlite3.connect(path) as db:
        owner = db.execute("SELECT id FROM project WHERE name=?", (project,)).fetchone()[0]
        for i, (sku, seconds) in enumerate(rows):
            price, p, den = db.execute("SELECT id, p, d FROM price_version WHERE sku=? ORDER BY valid_from_s LIMIT 1",
                                       (sku,)).fetchone()
            subject = f"ins_{project}{i}"
            window = f"{subject}/0/{price}/{year:04}{month:02}"
            db.execute("INSERT INTO rating_window(id, project, instance, subject, lease, meter, sku, price, year, month,"
                       " qty, rated_u, posted_u, posts, from_s, to_s, simulated) VALUES(?,?,?,?,'',0,?,?,?,?,?,?,0,0,?,?,0)",
                       (window, owner, subject, subject, sku, price, year, month, seconds, p * seconds // den,
                        start, start + seconds))
            db.execute("INSERT INTO usage_span(rating_window, from_s, to_s, qty_per_s, qty, node, boot, seq) "
                       "VALUES(?,?,?,1,?,'nod_past','',0)", (window, start, start + seconds, seconds))
    db.close()
    return f"{year:04}-{month:02}"


def micro(money):
    return int(decimal.Decimal(money["amount"]) * 1000000)


def minor(rows, key):
    return sum(decimal.Decimal(r[key]["amount"]) for r in rows)


def pdf_text(raw):
    with tempfile.NamedTemporaryFile(suffix=".pdf") as f:
        f.write(raw)
        f.flush()
        return subprocess.run(["pdftotext", "-layout", f.name, "-"], check=True, stdout=subprocess.PIPE,
                              text=True).stdout


def check_pdf(tap, raw, document):
    text = pdf_text(raw)
    wanted = ["发票", "Invoice", document["number"], document["payable"], document["net"], document["tax"],
              document["buyer"]["name"], document["seller"]["name"], "GPU 使用时长", "GPU time", "第 1 / 1 页"]
    lacking = [w for w in wanted if w not in text]
    tap.ok(raw[:5] == b"%PDF-" and not lacking, "the PDF holds totals and words that can be taken out", f"{lacking}\n{text}")


def check_xml(tap, text, document):
    root = ET.fromstring(text)
    same = all(root.findtext(k) == document[k] for k in ("number", "payable", "net", "tax", "currency"))
    tap.ok(same and len(root.findall("lines/line")) == len(document["lines"]) and
           root.findtext("buyer/name") == document["buyer"]["name"], "the XML says what the JSON says", text)
