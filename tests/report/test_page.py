"""The page: escaping, and what its scripts may do."""

from nmt.report.charts import Series, line_chart
from nmt.report.page import Section, render_page

HOSTILE = "</script><script>alert(1)</script><!-- \u2028 & \" '"


def test_hostile_text_is_escaped_everywhere() -> None:
    chart = line_chart(HOSTILE, HOSTILE, ("step", HOSTILE), [Series(HOSTILE, [1], [2.0])])
    html = '<div data-chart="loss"></div>'
    page = render_page(HOSTILE, [Section("run", HOSTILE, html, {"loss": chart}, {"text": HOSTILE})])
    assert "alert(1)<" not in page
    assert "\u2028" not in page.partition('type="application/json"')[2]
    assert page.count("<script") == page.count("</script>") == 3
