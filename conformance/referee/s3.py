"""moto's S3 emulator in a process of its own."""

import subprocess
import sys
import urllib.request

# The emulator looks whether an object is there and stores it in two steps, in a thread for each request: without the
# lock, two conditional puts could both win, which the service rules out; and listings fail while keys are removed. It
# ends when its standard input does.
PROGRAM = """
import functools, logging, sys, threading
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

one_at_a_time = threading.Lock()

def locked(method):
    @functools.wraps(method)
    def call(*args, **kwargs):
        with one_at_a_time:
            return method(*args, **kwargs)
    return call

for name in ("put_object", "_key_response_post", "_key_response_delete", "_bucket_response_get"):
    setattr(S3Response, name, locked(getattr(S3Response, name)))
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
sys.stdin.read()
server.stop()
"""
KEY, SECRET, REGION = "test-id", "test-secret", "us-east-1"


class S3:
    """An emulator with one bucket, for the time of a `with` block."""

    bucket = "bucket"

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        lines = iter(self.process.stdout.readline, "")
        self.endpoint = next(line for line in lines if line.startswith("http://")).strip()
        signature = (
            f"AWS4-HMAC-SHA256 Credential={KEY}/20200101/{REGION}/s3/aws4_request, SignedHeaders=host, Signature=0"
        )
        request = urllib.request.Request(
            f"{self.endpoint}/{self.bucket}", method="PUT", headers={"Authorization": signature}
        )
        urllib.request.urlopen(request, timeout=60).close()
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def storage(self):
        """What `serve --storage` reads."""
        return (
            f'["s3://{self.bucket}"]\nendpoint = "{self.endpoint}"\nregion = "{REGION}"\n'
            f'access_key_id = "{KEY}"\nsecret_access_key = "{SECRET}"\n'
        )

    def options(self):
        """What pylance takes as storage_options."""
        return {
            "aws_endpoint": self.endpoint,
            "allow_http": "true",
            "aws_region": REGION,
            "aws_access_key_id": KEY,
            "aws_secret_access_key": SECRET,
            "aws_virtual_hosted_style_request": "false",
        }
