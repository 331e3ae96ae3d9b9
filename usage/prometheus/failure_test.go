package prometheus_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// Common parts of the sentences of each kind of failure.
const (
	unreachable     = "cannot be reached ("
	addressRefused  = "is not queried: the address"
	badCertificate  = "has a certificate that cannot be verified ("
	badCredentials  = "rejects the credentials ("
	queryRejected   = "check the query and the source's parameters"
	serverError     = "attune retries at the next cycle"
	timedOut        = "did not answer within "
	tooLarge        = "answered with more than "
	tooMany         = "rejects the query as too large ("
	notPrometheus   = "does not serve the Prometheus HTTP API ("
	brokenAnswer    = "sent an incomplete or unreadable answer ("
	redirectRefused = "redirects to "
)

// fails reads and checks the failure's form.
func fails(t *testing.T, config prometheus.Config) *prometheus.Failure {
	t.Helper()
	_, _, err := read(t, newClient(t, config), query())
	var failure *prometheus.Failure
	require.ErrorAs(t, err, &failure)
	assert.True(t, strings.HasPrefix(err.Error(), config.Address+" "), err.Error())
	assert.NotContains(t, err.Error(), "\n", "one sentence")
	assert.NotContains(t, err.Error(), "hush", "secrets are not repeated")
	return failure
}

func TestFailuresByAnswer(t *testing.T) {
	const page = `<!DOCTYPE html><html><body>hush</body></html>`
	said := func(kind, text string) string {
		return fmt.Sprintf(`{"status":"error","errorType":%q,"error":%q}`, kind, text)
	}
	for _, test := range []struct {
		name   string
		answer func(int, http.ResponseWriter, *http.Request)
		reason string
		want   string
		less   bool
	}{
		{"401", sends(401, "text/plain", "no org id"), badCredentials, "rejects the credentials (HTTP 401): check the secret", false},
		{"403", sends(403, "text/html", page), badCredentials, "rejects the credentials (HTTP 403): check the secret", false},
		{"400 with the server's words", sends(400, jsonType, said("bad_data", "unknown parameter \"x\"")), queryRejected, `rejects the query (HTTP 400: unknown parameter "x")`, false},
		{"400 of VictoriaMetrics", sends(400, jsonType, said("400", "cannot parse arg")), queryRejected, "rejects the query (HTTP 400: cannot parse arg)", false},
		{"too many points", sends(400, jsonType, said("bad_data", "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")), tooMany, "rejects the query as too large (HTTP 400: exceeded maximum resolution", true},
		{"422 of Prometheus", sends(422, jsonType, said("execution", "query processing would load too many samples into memory in query execution")), tooMany, "rejects the query as too large (HTTP 422: query processing would load too many samples", true},
		{"422 of Mimir", sends(422, jsonType, said("execution", "the query exceeded the maximum number of chunks (err-mimir-max-chunks-per-query)")), tooMany, "rejects the query as too large (HTTP 422: the query exceeded", true},
		{"422 of VictoriaMetrics", sends(422, jsonType, said("422", "cannot select more than -search.maxSamplesPerQuery=1000000000 samples")), tooMany, "rejects the query as too large (HTTP 422: cannot select", true},
		{"a timeout of Prometheus", sends(503, jsonType, said("timeout", "query timed out in expression evaluation")), tooMany, "rejects the query as too large (HTTP 503: query timed out", true},
		{"a timeout of a gateway", sends(504, "text/html", page), tooMany, "rejects the query as too large (HTTP 504)", true},
		{"429", sends(429, "text/plain", "too many outstanding requests"), serverError, "limits the rate of queries (HTTP 429): attune retries", false},
		{"500", sends(500, jsonType, said("internal", "no space left")), serverError, "failed (HTTP 500: no space left): attune retries at the next cycle", false},
		{"502 of a gateway", sends(502, "text/html", page), serverError, "failed (HTTP 502): attune retries at the next cycle", false},
		{"404 of something else", sends(404, "text/plain", "404 page not found"), notPrometheus, "does not serve the Prometheus HTTP API (HTTP 404): check the address", false},
		{"a page", sends(200, "text/html; charset=utf-8", page), notPrometheus, "does not serve the Prometheus HTTP API", false},
		{"a page that is not called one", sends(200, jsonType, page), notPrometheus, "does not serve the Prometheus HTTP API", false},
		{"other JSON", sends(200, jsonType, `{"hush":[1,2]}`), notPrometheus, "does not serve the Prometheus HTTP API", false},
		{"a list", sends(200, jsonType, `[1,2]`), notPrometheus, "does not serve the Prometheus HTTP API", false},
		{"nothing", sends(200, jsonType, ``), brokenAnswer, "incomplete", false},
		{"no content", func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, brokenAnswer, "incomplete", false},
		{"an error that calls itself success", sends(200, jsonType, said("internal", "no")), queryRejected, "answered with an error (no)", false},
		{"a timeout that calls itself success", sends(200, jsonType, said("timeout", "slow")), tooMany, "rejects the query as too large (slow)", true},
		{"a vector", sends(200, jsonType, `{"status":"success","data":{"resultType":"vector","result":[]}}`), brokenAnswer, "not the answer to a range query", false},
		{"a scalar", sends(200, jsonType, `{"status":"success","data":{"resultType":"scalar","result":1}}`), brokenAnswer, "not the answer to a range query", false},
		{"no data", sends(200, jsonType, `{"status":"success"}`), brokenAnswer, "not the answer to a range query", false},
		{"an answer that breaks off", sends(200, jsonType, recorded(t, "prometheus.json")[:150]), brokenAnswer, "incomplete", false},
		{"a sample of three", sends(200, jsonType, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2",3]]}]}}`), brokenAnswer, "not a pair of a time and a value", false},
		{"a value that is no number", sends(200, jsonType, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"x"]]}]}}`), brokenAnswer, "not a pair of a time and a value", false},
		{"a label that is no text", sends(200, jsonType, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"pod":1},"values":[]}]}}`), brokenAnswer, "unreadable", false},
		{"many words", sends(400, jsonType, said("bad_data", strings.Repeat("wörter\n", 1000))), queryRejected, "wörter wörter", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newServer(t, test.answer)
			failure := fails(t, prometheus.Config{Address: server.URL})
			assert.Contains(t, failure.Error(), test.reason)
			assert.Contains(t, failure.Error(), test.want)
			assert.Equal(t, test.less, errors.Is(failure, usage.ErrTooMuch))
			assert.Less(t, len(failure.Error()), 600)
		})
	}
}

func TestFailureOfNobodyListening(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())

	failure := fails(t, prometheus.Config{Address: address, Parameters: map[string]string{"token": "hush"}})
	assert.Contains(t, failure.Error(), unreachable)
	assert.Contains(t, failure.Error(), "connection refused")
	assert.NotErrorIs(t, failure, usage.ErrTooMuch)
}

func TestFailureOfAnAddressThatIsNotAllowed(t *testing.T) {
	failure := fails(t, prometheus.Config{Address: "http://169.254.169.254"})
	assert.Contains(t, failure.Error(), addressRefused)

	server := newServer(t, cpu(t, "prometheus.json"))
	failure = fails(t, prometheus.Config{Address: server.URL, PolicySource: true})
	assert.Contains(t, failure.Error(), "is not allowed as the usage source of a policy", "loopback, from a policy")
	assert.Empty(t, server.asked())
}

func TestFailureOfANameForAnAddressThatIsNotAllowed(t *testing.T) {
	failure := fails(t, prometheus.Config{Address: "http://localhost:1", PolicySource: true})
	assert.Contains(t, failure.Detail(), addressRefused, "the address is checked, not the name")
	assert.NotContains(t, failure.Error(), "127.0.0.1")
}

func TestFailureOfATimeout(t *testing.T) {
	server := newServer(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	failure := fails(t, prometheus.Config{Address: server.URL, Timeout: 20 * time.Millisecond})
	assert.Contains(t, failure.Error(), timedOut)
	assert.Contains(t, failure.Error(), "did not answer within 20ms")
	assert.ErrorIs(t, failure, usage.ErrTooMuch)
}

func TestFailureOfATimeoutWithinTheAnswer(t *testing.T) {
	start := recorded(t, "prometheus.json")[:100]
	server := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(start))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	failure := fails(t, prometheus.Config{Address: server.URL, Timeout: 50 * time.Millisecond})
	assert.Contains(t, failure.Error(), timedOut)
}

func TestFailureOfATooLargeAnswer(t *testing.T) {
	answer := recorded(t, "prometheus.json")
	server := newServer(t, sends(200, jsonType, answer))
	size := int64(len(answer))

	_, _, err := read(t, newClient(t, prometheus.Config{Address: server.URL, MaxBytes: size}), query())
	require.NoError(t, err, "just as large as is allowed")

	failure := fails(t, prometheus.Config{Address: server.URL, MaxBytes: size - 10})
	assert.Contains(t, failure.Error(), tooLarge)
	assert.ErrorIs(t, failure, usage.ErrTooMuch)
}

func TestFailureOfAPackedBomb(t *testing.T) {
	server := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed(t, `{"status":"`+strings.Repeat("a", 1<<20)+`"`))
	})
	failure := fails(t, prometheus.Config{Address: server.URL, MaxBytes: 64 << 10})
	assert.Contains(t, failure.Error(), tooLarge, "what counts is the size unpacked")
}

func TestRedirects(t *testing.T) {
	answer := recorded(t, "prometheus.json")
	other := newServer(t, sends(200, jsonType, answer))
	for _, test := range []struct {
		name   string
		status int
		to     func(own string) string
		reason string
	}{
		{"within the server, as it was", http.StatusTemporaryRedirect, func(own string) string { return own + "/moved" }, ""},
		{"within the server, for good", http.StatusPermanentRedirect, func(own string) string { return own + "/moved" }, ""},
		{"within the server, but without the form", http.StatusFound, func(own string) string { return own + "/moved" }, redirectRefused},
		{"to another server", http.StatusTemporaryRedirect, func(string) string { return other.URL + "/x" }, redirectRefused},
		{"to another scheme", http.StatusTemporaryRedirect, func(own string) string { return strings.Replace(own, "http:", "https:", 1) + "/x" }, redirectRefused},
		{"for ever", http.StatusTemporaryRedirect, func(own string) string { return own + "/api" }, redirectRefused},
	} {
		t.Run(test.name, func(t *testing.T) {
			var server *server
			server = newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/moved" {
					sends(200, jsonType, answer)(n, w, r)
					return
				}
				w.Header().Set("Location", test.to(server.URL))
				w.WriteHeader(test.status)
			})
			config := prometheus.Config{Address: server.URL, Credentials: prometheus.Credentials{BearerToken: "hush"}}
			if test.reason != "" {
				failure := fails(t, config)
				assert.Contains(t, failure.Error(), test.reason)
				assert.Contains(t, failure.Error(), "set the address to it")
				assert.LessOrEqual(t, len(server.asked()), 5)
				return
			}
			got, _, err := read(t, newClient(t, config), query())
			require.NoError(t, err)
			assert.NotEmpty(t, got)
		})
	}
	assert.Empty(t, other.asked(), "the credentials stay with their server")
}

func TestCertificates(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[]}}`))
	}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = discard()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	for _, test := range []struct {
		name   string
		config prometheus.Config
		reason string
	}{
		{"the system's authorities", prometheus.Config{}, badCertificate},
		{"its own authority", prometheus.Config{Credentials: prometheus.Credentials{CA: ca}}, ""},
		{"another name", prometheus.Config{Credentials: prometheus.Credentials{CA: ca}, TLS: v1alpha1.SourceTLS{ServerName: "wrong.test"}}, badCertificate},
		{"a name of its own", prometheus.Config{Credentials: prometheus.Credentials{CA: ca}, TLS: v1alpha1.SourceTLS{ServerName: "example.com"}}, ""},
		{"any", prometheus.Config{TLS: v1alpha1.SourceTLS{InsecureSkipVerify: true}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.config.Address = server.URL
			if test.reason != "" {
				failure := fails(t, test.config)
				assert.Contains(t, failure.Error(), test.reason)
				return
			}
			_, _, err := read(t, newClient(t, test.config), query())
			require.NoError(t, err)
		})
	}
}

// The operator reaches servers that the author of a policy may not. So all servers that do not answer like Prometheus
// have one sentence: it must not say which names, ports and services exist.
func TestFailuresOfAPolicysServerAreNoPortScanner(t *testing.T) {
	const page = "<html>hush</html>"
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = discard()
	silent := newServer(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	closed := listen(t)
	require.NoError(t, closed.Close())
	addresses := map[string]string{
		"closed port": "http://" + closed.Addr().String(), "TLS": secure.URL, "no answer": silent.URL,
		"another protocol": "http://" + banner(t, "SSH-2.0-OpenSSH_9.9 internal-host\r\n"),
	}
	for name, answer := range map[string]func(int, http.ResponseWriter, *http.Request){
		"404": sends(404, "text/plain", "404 page not found"), "401": sends(401, "text/plain", "no org id"), "403": sends(403, "text/html", page),
		"a page": sends(200, "text/html", page), "502": sends(502, "text/html", page), "429": sends(429, "text/plain", "wait"), "504": sends(504, "text/html", page),
		"413": sends(413, "text/plain", ""), "other JSON": sends(200, jsonType, `{"status":"green"}`), "nothing": sends(200, jsonType, ""),
		"the API server": sends(403, jsonType, `{"kind":"Status","status":"Failure","message":"User \"system:anonymous\" cannot get path","code":403}`),
		"a redirect": func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://vault.hush.svc/", http.StatusTemporaryRedirect)
		},
	} {
		addresses[name] = newServer(t, answer).URL
	}
	check := func(config prometheus.Config) func(*testing.T) {
		return func(t *testing.T) {
			failure := fails(t, config)
			assert.Equal(t, config.Address+" gave no answer of a Prometheus server: check the address, its network policies, TLS settings and credentials; "+
				"the log of the operator has the cause", failure.Error())
			assert.NotEqual(t, failure.Error(), failure.Detail(), "the operator's log has the cause")
		}
	}
	for name, address := range addresses {
		t.Run(name, check(prometheus.Config{Address: address, Timeout: 200 * time.Millisecond, PolicySource: true, Through: http.DefaultTransport}))
	}
	t.Run("no such name", check(prometheus.Config{Address: "http://vault.payroll", PolicySource: true, Through: noSuchName{}}))
}

// noSuchName is a transport that cannot resolve any name.
type noSuchName struct{}

func (noSuchName) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: r.URL.Hostname(), Server: "10.96.0.10:53", IsNotFound: true}}
}

// A server that answers like Prometheus has a sentence of its own, and never repeats its words.
func TestFailuresOfAPolicysPrometheus(t *testing.T) {
	said := func(kind, text string) string {
		return fmt.Sprintf(`{"status":"error","errorType":%q,"error":%q}`, kind, text)
	}
	for name, test := range map[string]struct {
		answer func(int, http.ResponseWriter, *http.Request)
		want   string
		less   bool
	}{
		"a rejected query":           {sends(400, jsonType, said("bad_data", "hush")), "rejects the query: ", false},
		"an error as a success":      {sends(200, jsonType, said("internal", "hush")), "rejects the query: ", false},
		"a query that is too large":  {sends(422, jsonType, said("execution", "hush")), "cannot answer a query of this size: ", true},
		"an answer that is too long": {sends(200, jsonType, recorded(t, "prometheus.json")), "cannot answer a query of this size: ", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, test.answer)
			failure := failsOfPolicy(t, prometheus.Config{Address: server.URL, MaxBytes: 200})
			assert.True(t, strings.HasPrefix(failure.Error(), server.URL+" "+test.want), failure.Error())
			assert.NotContains(t, failure.Error(), "HTTP")
			assert.Equal(t, test.less, errors.Is(failure, usage.ErrTooMuch))
		})
	}
}

// failsOfPolicy is fails for a server that a policy names. The client's own connection would refuse loopback.
func failsOfPolicy(t *testing.T, config prometheus.Config) *prometheus.Failure {
	t.Helper()
	config.PolicySource, config.Through = true, http.DefaultTransport
	return fails(t, config)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// banner serves another protocol than HTTP, and returns its address.
func banner(t *testing.T, words string) string {
	t.Helper()
	listener := listen(t)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Write([]byte(words))
			_ = connection.Close()
		}
	}()
	return listener.Addr().String()
}

// Words of a server reach conditions, events and terminals.
func TestFailureWithoutControlCharacters(t *testing.T) {
	server := newServer(t, sends(400, jsonType, `{"status":"error","errorType":"bad_data","error":"\u001b]0;owned\u0007\u001b[2J\u202e evil\u0085\u2066"}`))
	failure := fails(t, prometheus.Config{Address: server.URL})
	assert.Contains(t, failure.Error(), "(HTTP 400: ]0;owned[2J evil)")
}
