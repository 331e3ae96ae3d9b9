package prometheus

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"attune.io/attune/internal/clip"
	"attune.io/attune/usage"
)

// Failure is why a server did not answer: one sentence with its address, without parameters, and with advice.
type Failure struct {
	sentence, detail string
	// cause is the error of the transport, joined with usage.ErrTooMuch if a smaller query may be answered; nil if
	// neither applies. Its text may contain addresses, so it is for the log.
	cause error
}

func (f *Failure) Error() string { return f.sentence }

// Detail returns the sentence for the operator's log. It equals Error unless a policy names the server.
func (f *Failure) Detail() string { return f.detail }

// public is what the author of a policy reads about a server that the policy names. The operator reaches servers that
// the author may not, so these sentences must not say which names, ports and services exist: every failure of a server
// that did not answer like Prometheus is noAnswer.
type public string

const (
	noAnswer public = "gave no answer of a Prometheus server: check the address, its network policies, TLS settings and credentials; " +
		"the log of the operator has the cause"
	rejected public = "rejects the query: check the query and the source's parameters; the log of the operator has the cause"
	tooLarge public = "cannot answer a query of this size: use a shorter span or a simpler query"
	refused  public = "is not allowed as the usage source of a policy: use a server of the cluster, or have an administrator add it to " +
		"usage.policySources.addresses"
)

func (f *Failure) Unwrap() error { return f.cause }

// errForeignRedirect is the error of a redirect to another server.
type errForeignRedirect struct{ to string }

func (e errForeignRedirect) Error() string { return "redirect to " + e.to }

// transportFailure returns the Failure of a request without a complete answer.
func (c *Client) transportFailure(err error) *Failure {
	err = WithoutURL(err)
	var address addressError
	var redirect errForeignRedirect
	var timeout net.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &address):
		return c.failure(refused, err, "is not queried: %s", address)
	case errors.As(err, &redirect):
		return c.failure(noAnswer, err, "redirects to %s, and attune follows no redirect to another server: set the address to it if it is the right server", redirect.to)
	case errors.As(err, new(*http.MaxBytesError)):
		return c.failure(tooLarge, errors.Join(err, usage.ErrTooMuch), "answered with more than %d MiB: use a shorter span or a narrower query", c.maxBytes>>20)
	case errors.Is(err, errLongSeries):
		return c.failure(tooLarge, errors.Join(err, usage.ErrTooMuch), "answered with a series that is longer than the queried span")
	case errors.As(err, &dial) && dial.Op == "dial", errors.As(err, new(*net.DNSError)):
		// The server never received the query: a smaller one would not be answered either.
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return c.failure(noAnswer, errors.Join(err, usage.ErrTooMuch), "did not answer within %s: use a shorter span or a simpler query, or a longer timeout", c.timeout)
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return c.failure(noAnswer, err, "has a certificate that cannot be verified (%s): set tls.caSecret or tls.serverName", err)
	}
	return c.failure(noAnswer, err, "cannot be reached (%s): attune retries at the next cycle", ownAddress.ReplaceAllString(err.Error(), ""))
}

// ownAddress is the local end of a connection in an error's text, as in "read tcp 10.0.0.1:41234->10.0.0.2:9090". It
// differs each time, and would make each failure look new.
var ownAddress = regexp.MustCompile(`\S+:\d+->`)

// statusFailure returns the Failure of an HTTP status other than success.
func (c *Client) statusFailure(status int, body []byte) *Failure {
	var said envelope
	if json.Unmarshal(body, &said) != nil {
		// Text outside the API's JSON is not repeated: behind an address that a tenant chose it may be anything.
		said = envelope{}
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return c.failure(said.public(), nil, "rejects the credentials (HTTP %d): check the secret of the source and its tenant header", status)
	case status == http.StatusTooManyRequests:
		return c.failure(said.public(), nil, "limits the rate of queries (HTTP 429%s): attune retries at the next cycle", said.suffix())
	case said.wantsLess(status):
		return c.failure(said.public(), usage.ErrTooMuch, "rejects the query as too large (HTTP %d%s): use a shorter span or a simpler query", status, said.suffix())
	case status >= 500:
		return c.failure(said.public(), nil, "failed (HTTP %d%s): attune retries at the next cycle", status, said.suffix())
	case said.Status == "":
		return c.failure(said.public(), nil, "does not serve the Prometheus HTTP API (HTTP %d): check the address and its path", status)
	}
	return c.failure(said.public(), nil, "rejects the query (HTTP %d%s): check the query and the source's parameters", status, said.suffix())
}

// envelopeFailure returns the Failure of an answer that reports an error.
func (c *Client) envelopeFailure(said envelope) *Failure {
	if said.wantsLess(http.StatusOK) {
		return c.failure(said.public(), usage.ErrTooMuch, "rejects the query as too large (%s): use a shorter span or a simpler query", said.text())
	}
	return c.failure(said.public(), nil, "answered with an error (%s): check the query and the source's parameters", said.text())
}

// decodeFailure returns the Failure of an answer that cannot be decoded.
func (c *Client) decodeFailure(err error) *Failure {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, errNotAnAnswer), errors.As(err, &syntax) && syntax.Offset <= 1:
		return c.failure(noAnswer, err, "does not serve the Prometheus HTTP API (the answer is not its JSON): check the address and its path")
	case isDecoding(err):
		return c.failure(noAnswer, err, "sent an incomplete or unreadable answer (%s): attune retries at the next cycle", err)
	}
	return c.transportFailure(err)
}

// failure returns a Failure of this client. The sentence continues after the address; it is the public one if a policy
// names the server.
func (c *Client) failure(shown public, cause error, format string, arguments ...any) *Failure {
	f := &Failure{detail: c.shown + " " + fmt.Sprintf(format, arguments...), cause: cause}
	f.sentence = f.detail
	if c.policySource {
		f.sentence = c.shown + " " + string(shown)
	}
	return f
}

// public returns rejected or tooLarge only for an error in the form of the Prometheus HTTP API. Other servers have JSON
// errors too, such as the API server and a kubelet.
func (e envelope) public() public {
	switch {
	case e.Status != "error" || e.ErrorType == "":
		return noAnswer
	case e.wantsLess(http.StatusOK):
		return tooLarge
	}
	return rejected
}

// WithoutURL removes the URL from an error, because its parameters may be secret.
func WithoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// maxSaid bounds the repeated text of a server.
const maxSaid = 300

// text returns the server's error in one line of at most maxSaid bytes (see clip.Line).
func (e envelope) text() string {
	return clip.Marked(clip.Line(e.Error), maxSaid)
}

// suffix returns a colon and the text; empty if there is no text.
func (e envelope) suffix() string {
	if text := e.text(); text != "" {
		return ": " + text
	}
	return ""
}

// wantsLess recognises the servers' limits. The queries are valid by construction, so a computation fails only because
// of its size: Prometheus and Mimir answer 422, on a timeout 503 or 504, on too many points 400; VictoriaMetrics
// answers 422.
func (e envelope) wantsLess(status int) bool {
	switch status {
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusGatewayTimeout:
		return true
	}
	return e.ErrorType == "timeout" || e.ErrorType == "execution" || strings.Contains(e.Error, "exceeded maximum resolution")
}
