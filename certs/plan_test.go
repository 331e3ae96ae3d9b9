package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	names = []string{"attune-webhook.attune-system.svc", "attune-webhook.attune-system.svc.cluster.local"}
)

const day = 24 * time.Hour

func issue(t testing.TB, now time.Time, action Action, data Data) Data {
	t.Helper()
	issued, err := Issue(now, action, data, names)
	require.NoError(t, err)
	return issued
}

func TestPlanFor(t *testing.T) {
	fresh := issue(t, start, Replace, nil)
	other := issue(t, start, Replace, nil)
	with := func(key string, value []byte) Data {
		changed := maps.Clone(fresh)
		changed[key] = value
		return changed
	}
	notAnAuthority := with(bundleKey, fresh[certKey])
	notAnAuthority[authorityKey] = fresh[keyKey]
	cases := []struct {
		name   string
		after  time.Duration
		data   Data
		names  []string
		want   Action
		reason string
	}{
		{name: "nothing yet", want: Replace, data: Data{}, reason: "no certificate exists yet"},
		{name: "fresh", data: fresh, want: Keep},
		{name: "the clock went back a little", data: fresh, after: -59 * time.Minute, want: Keep},
		{name: "the clock went back too far", data: fresh, after: -61 * time.Minute, want: Replace, reason: "not valid before 2030-01-02T02:04:05Z"},
		{name: "before two thirds of the certificate's life", data: fresh, after: 59 * day, want: Keep},
		{name: "after two thirds of the certificate's life", data: fresh, after: 60*day + time.Hour, want: RenewLeaf, reason: "two thirds"},
		{name: "the certificate has expired", data: fresh, after: 90*day + time.Second, want: RenewLeaf, reason: "expired"},
		{name: "two thirds of the authority's life", data: issue(t, start.Add(2420*day), RenewLeaf, fresh), after: 2434 * day, want: RenewAuthority, reason: "two thirds of the authority's"},
		{name: "the authority has expired", data: fresh, after: 3651 * day, want: Replace, reason: "expired at 2039-12-31"},
		{name: "another name", data: fresh, names: []string{names[0], "other.svc"}, want: RenewLeaf, reason: "not other.svc"},
		{name: "a name less", data: fresh, names: names[:1], want: Keep},
		{name: "a bundle that is none", data: with(bundleKey, []byte("x")), want: Replace, reason: "no usable authority"},
		{name: "another's bundle", data: with(bundleKey, other[bundleKey]), want: Replace, reason: "private key does not match"},
		{name: "another's authority key", data: with(authorityKey, other[authorityKey]), want: Replace, reason: "private key does not match"},
		{name: "an authority that may not sign", data: notAnAuthority, want: Replace, reason: "may not sign"},
		{name: "another's key", data: with(keyKey, other[keyKey]), want: RenewLeaf, reason: "private key does not match"},
		{name: "no certificate", data: with(certKey, nil), want: RenewLeaf, reason: "no usable certificate"},
		{name: "another's certificate", data: with(certKey, append(other[certKey], other[keyKey]...)), want: RenewLeaf},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.names == nil {
				c.names = names
			}
			plan := PlanFor(start.Add(c.after), c.data, c.names)
			assert.Equal(t, c.want, plan.Action, plan.Reason)
			assert.Contains(t, plan.Reason, c.reason)
			assert.Equal(t, c.want == Keep, plan.Reason == "")
			assert.Equal(t, c.want == Keep, !plan.Next.IsZero())
		})
	}
	t.Run("a certificate of an authority that is not trusted", func(t *testing.T) {
		forged := with(certKey, other[certKey])
		forged[keyKey] = other[keyKey]
		plan := PlanFor(start, forged, names)
		assert.Equal(t, RenewLeaf, plan.Action)
		assert.Contains(t, plan.Reason, "unknown authority")
	})
	t.Run("next is when the first of the two is due", func(t *testing.T) {
		assert.Equal(t, due(leafOf(t, fresh)), PlanFor(start, fresh, names).Next)
	})
}

func leafOf(t testing.TB, data Data) *x509.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(data[certKey], data[keyKey])
	require.NoError(t, err)
	return pair.Leaf
}

// accepts checks as a client whether the bundle verifies the served certificate now, for both names.
func accepts(bundle []byte, leaf *x509.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, name := range names {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}); err != nil {
			return err
		}
	}
	return nil
}

func TestIssueKeepsTheOldAuthorityTrusted(t *testing.T) {
	first := issue(t, start, Replace, nil)
	before := maps.Clone(first)
	at := start.Add(2434 * day)
	renewed := issue(t, at, RenewLeaf, first)

	second := issue(t, at, RenewAuthority, renewed)

	assert.Equal(t, before, first, "what was passed in is not changed")
	assert.Equal(t, renewed[certKey], second[certKey], "the certificate stays until the new authority is known")
	assert.NotEqual(t, first[authorityKey], second[authorityKey])
	assert.Len(t, trusted(at, second), 2)
	assert.NoError(t, accepts(second[bundleKey], leafOf(t, second), at))
	assert.Equal(t, Keep, PlanFor(at, second, names).Action)

	third := issue(t, at.Add(61*day), RenewLeaf, second)
	assert.NoError(t, accepts(second[bundleKey], leafOf(t, third), at.Add(61*day)))
	assert.Error(t, accepts(first[bundleKey], leafOf(t, third), at.Add(61*day)), "signed by the new one")

	fourth := issue(t, start.Add(3651*day), RenewAuthority, third)
	assert.Len(t, trusted(start.Add(3651*day), fourth), 2, "the first has expired and is dropped")
	assert.Equal(t, 2, bytes.Count(fourth[bundleKey], []byte("BEGIN CERTIFICATE")))
}

func TestIssueFailsWithoutAnAuthority(t *testing.T) {
	_, err := Issue(start, RenewLeaf, Data{}, names)
	assert.ErrorContains(t, err, "issuing a serving certificate: no usable authority")
}

func TestACertificateEndsWithItsAuthority(t *testing.T) {
	data := issue(t, start, Replace, nil)
	late := start.Add(3600 * day)
	data = issue(t, late, RenewLeaf, data)
	assert.Equal(t, start.Add(3650*day), leafOf(t, data).NotAfter.UTC())
}

func TestIssuedCertificateIsNarrow(t *testing.T) {
	data := issue(t, start, Replace, nil)
	leaf, authority := leafOf(t, data), trusted(start, data)[0]
	assert.False(t, leaf.IsCA)
	assert.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, leaf.ExtKeyUsage)
	assert.Equal(t, names, leaf.DNSNames)
	assert.True(t, authority.MaxPathLenZero, "it signs no further authority")
	assert.NotEqual(t, leaf.SerialNumber, authority.SerialNumber)
}

// Over thirty years, checked every five days, the API server accepts the served certificate at every check. It learns
// of a bundle one check late.
func TestNoAdmissionIsLostInThirtyYears(t *testing.T) {
	data, authorities, leaves := issue(t, start, Replace, nil), map[string]bool{}, map[string]bool{}
	for now := start; now.Before(start.Add(30 * 365 * day)); now = now.Add(5 * day) {
		known := data[bundleKey]
		for plan := PlanFor(now, data, names); plan.Action != Keep; plan = PlanFor(now, data, names) {
			require.NotEqual(t, Replace, plan.Action, "%s: %s", now, plan.Reason)
			data = issue(t, now, plan.Action, data)
		}
		leaf := leafOf(t, data)
		require.NoError(t, accepts(known, leaf, now), now)
		require.LessOrEqual(t, len(trusted(now, data)), 2, now)
		authorities[string(data[authorityKey])], leaves[string(data[certKey])] = true, true
	}
	assert.Len(t, authorities, 5)
	assert.Greater(t, len(leaves), 150)
}

// A self-signed certificate serves a handshake, with a key that costs little CPU.
func TestOwn(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pair, err := Own(now, "localhost", "here")
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	assert.Equal(t, x509.ECDSA, leaf.PublicKeyAlgorithm)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	for _, name := range []string{"localhost", "here"} {
		_, err = leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now})
		assert.NoError(t, err, name)
	}
	other, err := Own(now, "localhost")
	require.NoError(t, err)
	assert.NotEqual(t, pair.Certificate, other.Certificate)
}
