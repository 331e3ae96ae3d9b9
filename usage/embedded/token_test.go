package embedded

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// issuer counts its requests, and answers with tokens of ten minutes or with an error.
type issuer struct {
	mutex sync.Mutex
	clock *clocktesting.FakeClock
	asked int
	err   error
}

func (i *issuer) issue(context.Context) (*oauth2.Token, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.asked++
	return &oauth2.Token{AccessToken: "scraper-" + string(rune('0'+i.asked)), Expiry: i.clock.Now().Add(10 * time.Minute)}, i.err
}

func newIssuer() (*issuer, *Tokens) {
	i := &issuer{clock: clocktesting.NewFakeClock(noon)}
	return i, NewTokens(i.issue, i.clock)
}

// TestTokensAreRenewed after four fifths of their lifetime, and never before.
func TestTokensAreRenewed(t *testing.T) {
	issuer, tokens := newIssuer()
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{0, "scraper-1"}, {7*time.Minute + 59*time.Second, "scraper-1"}, {8 * time.Minute, "scraper-2"},
		{15 * time.Minute, "scraper-2"}, {time.Hour, "scraper-3"},
	} {
		issuer.clock.SetTime(noon.Add(c.after))
		got, err := tokens.Token()
		require.NoError(t, err)
		assert.Equal(t, c.want, got.AccessToken, c.after)
	}
}

// TestATokenThatCannotBeGot: a valid token is used further, an invalid one is never sent, and the backoff of requests
// to the API server grows.
func TestATokenThatCannotBeGot(t *testing.T) {
	issuer, tokens := newIssuer()
	_, err := tokens.Token()
	require.NoError(t, err)
	issuer.err = errors.New(`serviceaccounts "attune-scraper" not found`)
	ended := 0
	for after := 8 * time.Minute; after < time.Hour; after += time.Second {
		issuer.clock.SetTime(noon.Add(after))
		token, err := tokens.Token()
		if after < 10*time.Minute-maxAnswerTime {
			require.NoError(t, err)
			require.Equal(t, "scraper-1", token.AccessToken)
			continue
		}
		ended++
		require.EqualError(t, err, `no token for kubelets, retrying: serviceaccounts "attune-scraper" not found`)
		require.Nil(t, token)
	}
	require.Positive(t, ended)
	assert.Less(t, issuer.asked, 70, "once a minute in the end")
	assert.Greater(t, issuer.asked, 50)

	issuer.err = nil
	issuer.clock.Step(tokenRetryMost)
	token, err := tokens.Token()
	require.NoError(t, err, "it is tried again")
	assert.NotEmpty(t, token.AccessToken)
}

// TestATokenThatKubeletsRefuse is replaced, at most once a minute for any number of rejections, and used until then.
func TestATokenThatKubeletsRefuse(t *testing.T) {
	issuer, tokens := newIssuer()
	get := func() string {
		token, err := tokens.Token()
		require.NoError(t, err)
		return token.AccessToken
	}
	// The rejection is of a request that began now.
	refuse := func() { tokens.ResetTokenOlderThan(issuer.clock.Now().Add(time.Millisecond)) }
	require.Equal(t, "scraper-1", get())
	refuse()
	assert.Equal(t, "scraper-1", get(), "it was got just now")
	issuer.clock.Step(tokenAge)
	tokens.ResetTokenOlderThan(noon)
	assert.Equal(t, "scraper-1", get(), "the request began before it was got")
	refuse()
	issuer.err = errors.New("away")
	assert.Equal(t, "scraper-1", get())
	issuer.err = nil
	issuer.clock.Step(tokenRetryMost)
	assert.Equal(t, "scraper-3", get())
	for range 100 {
		refuse()
		assert.Equal(t, "scraper-3", get())
	}
	assert.Equal(t, 3, issuer.asked)
}

// TestOneTokenForAll: one request for any number of concurrent scrapes.
func TestOneTokenForAll(t *testing.T) {
	clock := clocktesting.NewFakeClock(noon)
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	tokens := NewTokens(func(context.Context) (*oauth2.Token, error) {
		asked <- struct{}{}
		<-answer
		return &oauth2.Token{AccessToken: "scraper", Expiry: clock.Now().Add(10 * time.Minute)}, nil
	}, clock)
	all := sync.WaitGroup{}
	get := func() {
		token, err := tokens.Token()
		if assert.NoError(t, err) {
			assert.Equal(t, "scraper", token.AccessToken)
		}
	}
	for range 50 {
		all.Go(get)
	}
	<-asked
	close(answer)
	all.Wait()
	assert.Empty(t, asked)

	// No scrape waits for the renewal of a valid token.
	clock.Step(9 * time.Minute)
	answer = make(chan struct{})
	all.Go(get)
	<-asked
	for range 50 {
		get()
	}
	close(answer)
	all.Wait()
	assert.Empty(t, asked)
}

func TestATokenThatHasEndedAlreadyIsNone(t *testing.T) {
	clock := clocktesting.NewFakeClock(noon)
	tokens := NewTokens(func(context.Context) (*oauth2.Token, error) {
		return &oauth2.Token{AccessToken: "old", Expiry: noon.Add(-time.Minute)}, nil
	}, clock)
	_, err := tokens.Token()
	assert.ErrorContains(t, err, "compare the clocks")
}

// TestKubeletsSeeTheScraperAlone: whatever credentials the operator has, a kubelet only sees the scraper's token.
// Without a token, the kubelet is not scraped.
func TestKubeletsSeeTheScraperAlone(t *testing.T) {
	own := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(own, []byte("operator"), 0o600))
	for name, config := range map[string]rest.Config{
		"a token":           {BearerToken: "operator"},
		"a file of it":      {BearerTokenFile: own},
		"both":              {BearerToken: "operator", BearerTokenFile: own},
		"a name":            {Username: "operator", Password: "operator"},
		"somebody else's":   {BearerToken: "operator", Impersonate: rest.ImpersonationConfig{UserName: "operator"}},
		"what is wrapped":   {WrapTransport: operatorShows},
		"wrapped and its":   {BearerToken: "operator", WrapTransport: operatorShows},
		"a certificate too": {BearerToken: "operator", TLSClientConfig: clientCertificate(t)},
	} {
		t.Run(name, func(t *testing.T) {
			mutex, shown := sync.Mutex{}, []http.Header(nil)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mutex.Lock()
				defer mutex.Unlock()
				assert.Empty(t, r.TLS.PeerCertificates)
				shown = append(shown, r.Header)
			}))
			server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
			server.StartTLS()
			defer server.Close()
			issuer, tokens := newIssuer()
			config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			c := kubeletConfig(&config, KubeletTLS{}, tokens)
			c.Dial = (&net.Dialer{}).DialContext // see TestKubeletsAreVerified
			transport, err := rest.TransportFor(c)
			require.NoError(t, err)
			asks := newKubelets(transport)
			scrape := func() error {
				return asks.get(t.Context(), Node{Address: netip.MustParseAddrPort(server.Listener.Addr().String())}, "/metrics/resource", 1000, &bytes.Buffer{})
			}
			require.NoError(t, scrape())
			require.Len(t, shown, 1)
			assert.Equal(t, []string{"Bearer scraper-1"}, shown[0]["Authorization"])
			for _, values := range shown[0] {
				assert.NotContains(t, values, "operator")
			}

			issuer.err = errors.New("the API server is away")
			issuer.clock.Step(time.Hour)
			err = scrape()
			require.EqualError(t, err, "no token for kubelets, retrying: the API server is away")
			assert.Len(t, shown, 1, "nobody was asked")

			issuer.err = nil
			issuer.clock.Step(time.Minute)
			require.NoError(t, scrape(), "and again when it is back")
			assert.Equal(t, []string{"Bearer scraper-3"}, shown[1]["Authorization"])
		})
	}
}

// operatorShows simulates an authentication plugin.
func operatorShows(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer operator")
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// clientCertificate is a credential of an operator outside the cluster.
func clientCertificate(t *testing.T) rest.TLSClientConfig {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return rest.TLSClientConfig{
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), KeyData: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}
