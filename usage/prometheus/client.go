package prometheus

import (
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"attune.io/attune/usage"
)

// Client queries one server. It is a usage.Source, and safe for concurrent use. Use New; the zero value is not usable.
type Client struct {
	http *http.Client
	base *url.URL
	// shown is the address for messages, without parameters, because these may be secret.
	shown  string
	header http.Header
	// policySource: failures have public sentences.
	policySource bool
	// exposed: others may read the credentials that a policy's source sends.
	exposed bool
	// parameters are sent in the URL of every request.
	parameters url.Values
	timeout    time.Duration
	// maxBytes bounds an answer, unpacked; timeout bounds a request with its answer.
	maxBytes int64
	scope    Scope
	// checks has the warnings about the server's data.
	checks checks
	// getOnly: the server, or a gateway in front of it, does not accept POST.
	getOnly atomic.Bool
}

var _ usage.Source = (*Client)(nil)

// New returns a client of the server. It does not connect yet. Errors name the invalid setting.
func New(config Config) (*Client, error) {
	base, err := config.base()
	if err != nil {
		return nil, err
	}
	header, err := config.header()
	if err != nil {
		return nil, err
	}
	transport, err := config.transport()
	if err != nil {
		return nil, err
	}
	parameters := base.Query()
	for name, value := range config.Parameters {
		parameters.Set(name, value)
	}
	base.RawQuery = ""
	now := config.Now
	if now == nil {
		now = time.Now
	}
	return &Client{
		http:       &http.Client{Transport: transport, CheckRedirect: sameHost},
		base:       base,
		shown:      base.String(),
		header:     header,
		parameters: parameters,

		policySource: config.PolicySource,
		exposed:      config.PolicySource && header.Get("Authorization") != "" && (base.Scheme != "https" || config.TLS.InsecureSkipVerify),
		timeout:      cmp.Or(config.Timeout, DefaultTimeout),
		maxBytes:     cmp.Or(config.MaxBytes, DefaultMaxBytes),
		scope:        ScopeOf(config.Labels),
		checks:       checks{cluster: config.Labels[clusterLabel] != "", now: now},
	}, nil
}

// Scope returns the matchers that narrow all of the client's expressions.
func (c *Client) Scope() Scope { return c.scope }

// Close closes the idle connections. The client may be used again.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// sameHost follows a redirect only within the server, so that no credentials leave it, and only if the request is
// repeated unchanged. A 302 turns a POST into a GET without the form, which would be a different query.
func sameHost(request *http.Request, via []*http.Request) error {
	first := via[0]
	if request.URL.Scheme != first.URL.Scheme || request.URL.Host != first.URL.Host || request.Method != first.Method || len(via) > 3 {
		return errForeignRedirect{to: request.URL.Scheme + "://" + request.URL.Host + request.URL.EscapedPath()}
	}
	return nil
}

// Read queries CPU and memory: one request each, or one per 11,000 steps. Errors are of type *Failure, unless the
// context ended. They wrap usage.ErrTooMuch if a smaller query may be answered.
func (c *Client) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	report, err := Read(ctx, c.scope, query, c.Range, yield)
	if err == nil {
		c.checks.warn(ctx, c, query, &report)
		if c.exposed {
			report.Warn("attune sends the credentials without encryption or to a server whose certificate it does not verify: use https:// and no tls.insecureSkipVerify")
		}
	}
	return report, err
}

// Range evaluates an expression at each step of a query (/api/v1/query_range). It implements Asker.
func (c *Client) Range(ctx context.Context, expression string, query usage.Query, yield func(Element)) (usage.Report, error) {
	form := url.Values{
		"query":   {expression},
		"start":   {seconds(query.Start)},
		"end":     {seconds(query.End)},
		"step":    {strconv.FormatFloat(query.Step.Seconds(), 'f', -1, 64)},
		"timeout": {c.timeout.String()},
	}
	var said usage.Report
	err := c.ask(ctx, "/api/v1/query_range", form, func(body io.Reader) error {
		answer, err := decode(body, query.Steps(), yield)
		if err != nil {
			return c.decodeFailure(err)
		}
		if answer.Status != "success" {
			return c.envelopeFailure(answer)
		}
		said = answer.said()
		return nil
	})
	return said, err
}

// ask sends a form within the client's timeout, and passes the body of a successful answer to read. If the caller's
// context ends, it returns that error, so that it does not count as a failure of the server.
func (c *Client) ask(ctx context.Context, path string, form url.Values, read func(io.Reader) error) error {
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := c.askBounded(bounded, path, form, read)
	if err != nil && ctx.Err() != nil {
		// The caller's context has ended; the server did not fail.
		return ctx.Err()
	}
	return err
}

// askBounded sends a form and checks the status and the type of the answer. Its errors are of type *Failure.
func (c *Client) askBounded(ctx context.Context, path string, form url.Values, read func(io.Reader) error) error {
	response, err := c.send(ctx, path, form)
	if err != nil {
		return c.transportFailure(err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		// Only the beginning: it is a sentence, or a page that is not parsed.
		body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return c.statusFailure(response.StatusCode, body)
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
		return c.decodeFailure(errNotAnAnswer)
	}
	return read(http.MaxBytesReader(nil, response.Body, c.maxBytes))
}

// send posts the form, because a query with many namespaces may exceed the length of a URL. If POST is rejected it
// tries GET, and remembers that for the client after GET was answered.
func (c *Client) send(ctx context.Context, path string, form url.Values) (*http.Response, error) {
	if c.getOnly.Load() {
		return c.do(ctx, http.MethodGet, path, form)
	}
	response, err := c.do(ctx, http.MethodPost, path, form)
	// Gateways that accept only read requests answer with these statuses.
	refusals := []int{http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented}
	if err != nil || !slices.Contains(refusals, response.StatusCode) {
		return response, err
	}
	response.Body.Close()
	response, err = c.do(ctx, http.MethodGet, path, form)
	if err == nil && response.StatusCode/100 == 2 {
		c.getOnly.Store(true)
	}
	return response, err
}

// do sends one request. The source's parameters go into the URL, also for a POST, because gateways choose a tenant by
// them. An Idempotency-Key without a value is not sent. It lets the transport repeat the request on a connection that
// the server has just closed, because the request only reads.
func (c *Client) do(ctx context.Context, method, path string, form url.Values) (*http.Response, error) {
	target, body := *c.base, ""
	target.Path += path
	target.RawQuery = c.parameters.Encode()
	if method == http.MethodPost {
		body = form.Encode()
	} else {
		query := maps.Clone(c.parameters)
		maps.Copy(query, form)
		target.RawQuery = query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = c.header.Clone()
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header["Idempotency-Key"] = nil
	}
	return c.http.Do(request)
}

// seconds formats a time in Unix seconds.
func seconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}
