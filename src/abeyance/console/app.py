"""The API's application with the pages added."""

from falcon.asgi import App, Request, Response

from abeyance.console.links import ODD_LINKS, TEMPLATE, LinkPage
from abeyance.http import app as api
from abeyance.http.app import HttpServices
from abeyance.http.resources.waiting import WaitingRequests


def create_app(services: HttpServices) -> App[Request, Response]:
    """The whole API and the pages, over these services."""
    app = api.create_app(services)
    waiting = WaitingRequests(services.max_waiting, services.wait_s)
    page = LinkPage(services.runs, waiting, services.gate, services.notes)
    app.add_route(TEMPLATE, page)
    app.add_sink(page.answer_odd, ODD_LINKS)
    return app
