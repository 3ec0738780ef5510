"""Runs a graphite-web whose only cluster server is ours, sends both the same requests and compares the answers.

Usage: python graphite_web.py HOST:PORT FORMAT, where FORMAT is the format that graphite-web requests from us: pickle or msgpack.
"""
import json
import os
import sys
import tempfile
import time
import types
from urllib.parse import urlencode
from urllib.request import urlopen

host, form = sys.argv[1:3]
directory = tempfile.mkdtemp()
settings = types.ModuleType("client_settings")
settings.__dict__.update(
    SECRET_KEY="client",
    STORAGE_DIR=directory,
    LOG_DIR=directory,
    LOG_ROTATION=False,
    STANDARD_DIRS=[],
    WHISPER_DIR=os.path.join(directory, "whisper"),
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    CACHES={"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}},
    CARBONLINK_HOSTS=[],
    CLUSTER_SERVERS=["%s?format=%s" % (host, form)],
    USE_WORKER_POOL=False,
    ALLOWED_HOSTS=["*"],
    TIME_ZONE="UTC",
    FIND_CACHE_DURATION=0,
    DEFAULT_CACHE_DURATION=0,
    STORAGE_FINDERS=("graphite.finders.remote.RemoteFinder",),
)
sys.modules["client_settings"] = settings
os.environ["GRAPHITE_SETTINGS_MODULE"] = "client_settings"
os.environ["DJANGO_SETTINGS_MODULE"] = "graphite.settings"
for name in ("cairocffi", "cairo"):
    sys.modules.setdefault(name, types.ModuleType(name))

import django

django.setup()
from django.core.management import call_command
from django.test import Client

call_command("migrate", run_syncdb=True, verbosity=0)
client = Client(raise_request_exception=False)


def sorted_nodes(answer):
    is_nodes = isinstance(answer, list) and answer and isinstance(answer[0], dict) and "id" in answer[0]
    return sorted(answer, key=lambda node: node["id"]) if is_nodes else answer


def compare(path, **parameters):
    address = path + "?" + urlencode(parameters)
    theirs = client.get(address)
    with urlopen("http://%s%s" % (host, address)) as response:
        ours = sorted_nodes(json.loads(response.read()))
    read = sorted_nodes(json.loads(theirs.content)) if theirs.status_code == 200 else theirs.content
    is_equal = bool(ours) and read == ours
    print("%-8s graphite-web by %s: %s" % ("equal" if is_equal else "DIFFERS", form, address))
    if not is_equal:
        print("  graphite-web: %.600s\n  we: %.600s" % (read, ours))
    return is_equal


now = int(time.time())
times = {"from": str(now - 120), "until": str(now - 1)}
targets = ["pickled.p*", "sumSeries(pickled.*)", "movingAverage(*.*,2)", "seriesByTag('name=tagged.x')"]
results = [compare("/metrics/find", query=query, **times) for query in ("*", "pickled.*")]
results += [compare("/metrics/expand", query="pickled.*"), compare("/metrics/index.json")]
results += [compare("/render", target=target, format="json", **times) for target in targets]
sys.exit(not all(results))
