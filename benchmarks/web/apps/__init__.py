"""The same application in each framework: a POST sends an order, and answers with its place.

A module is named as the framework, and has ``make_app(connect)``. ``connect`` is a client's
(`benchmarks.web.clients`): the application's lifespan opens it and closes it.
"""
