FROM python:3.12-slim
WORKDIR /src
COPY . .
# /data is anybody's, as /tmp is: with --user the app is whoever owns the agent's file (docs/how-to/share.md).
RUN pip install --no-cache-dir -c constraints.txt '.[app,postgres]' \
    && useradd --create-home --uid 1000 inspector && install -d -o inspector -m 1777 /data
USER inspector
WORKDIR /data
# Every interface, of the container: which of the host's may reach it is said with -p or in compose.yaml. The address to
# print is given, or Streamlit asks a server outside for the machine's.
ENV MEMORY_INSPECTOR_HOME=/data MEMORY_INSPECTOR_ALLOW_NO_SIGN_IN=1 \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 STREAMLIT_BROWSER_SERVER_ADDRESS=localhost
VOLUME /data
EXPOSE 8501
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8501/_stcore/health')"]
ENTRYPOINT ["memory-inspector"]
CMD ["--no-browser"]
