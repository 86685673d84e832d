"""`python -m tests.contract.docs`: writes every generated page that needs no server."""

from tests.contract.docs import PAGES, topics_page

for made in PAGES:
    made.PAGE.write_text(made.page(), encoding="utf-8")
topics_page.ASYNCAPI.write_text(topics_page.asyncapi_text(), encoding="utf-8")
