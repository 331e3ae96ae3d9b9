package browser

import (
	"bytes"
	"context"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// started is a Chromium until the test ends.
func started(t *testing.T) *Browser {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	b, err := Start(ctx)
	require.NoError(t, err)
	return b
}

// served is the address of a page.
func served(t *testing.T, body []byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// savePicture stores a picture where it can be looked at.
func savePicture(t *testing.T, name string, picture []byte) {
	t.Helper()
	folder := filepath.Join("..", "..", "bin", "screenshots")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644))
}

// TestBacktestPage: the report of a backtest, of series whose names mean harm, as readers see it: nothing but the page is
// loaded, nothing runs that a name brings, it fits a desktop and a phone, and axe-core finds nothing.
func TestBacktestPage(t *testing.T) {
	file, err := filepath.Abs("../../cmd/kubectl-attune/backtestpage/testdata/page.html")
	require.NoError(t, err)
	address := "file://" + file
	b := started(t)
	for _, view := range Views {
		t.Run(view.Name, func(t *testing.T) {
			s, err := b.Look(address, view)
			require.NoError(t, err)
			savePicture(t, "backtest-"+view.Name, s.Picture)
			assert.Equal(t, []string{address}, s.Requests)
			assert.Empty(t, s.Complaints)
			assert.Empty(t, s.Violations)
			assert.Zero(t, max(0, s.Wide), "pixels that are beyond the window")
			assert.Contains(t, s.Title, "Backtest of")
			assert.Equal(t, 1, s.Headings)
			picture, err := png.DecodeConfig(bytes.NewReader(s.Picture))
			require.NoError(t, err)
			assert.EqualValues(t, view.Width, picture.Width)
			assert.Greater(t, picture.Height, 2000, "pixels of the whole page")
		})
	}
}

// TestViolationsAreReported: a page that breaks its own Content-Security-Policy is seen doing it.
func TestViolationsAreReported(t *testing.T) {
	address := served(t, []byte(`<!DOCTYPE html><html lang="en"><head><title>bad</title><meta http-equiv="Content-Security-Policy" content="default-src 'none'"></head><body>
<h1 style="color: red">one</h1><img src="/elsewhere.png" alt="none"><script>alert("hello")</script></body></html>`))
	s, err := started(t).Look(address, Views[0])
	require.NoError(t, err)
	assert.Len(t, s.Complaints, 3)
}

// TestReportedErrors: a page that does what none may is seen doing it.
func TestReportedErrors(t *testing.T) {
	address := served(t, []byte(`<!DOCTYPE html><html><head><title>bad</title></head><body>
<h1>one</h1><h1>two</h1><div style="width: 3000px">wide</div><img src="/elsewhere.png"><p style="color: #eee; background: #fff">pale</p>
<script>console.error("broken"); alert("hello"); throw new Error("thrown")</script></body></html>`))
	s, err := started(t).Look(address, Views[2])
	require.NoError(t, err)
	assert.Contains(t, s.Requests, address+"elsewhere.png")
	assert.Greater(t, s.Wide, 2000)
	assert.Equal(t, 2, s.Headings)
	said := ""
	for _, complaint := range s.Complaints {
		said += complaint + "\n"
	}
	for _, part := range []string{"broken", "a dialog: hello", "thrown"} {
		assert.Contains(t, said, part)
	}
	broken := ""
	for _, violation := range s.Violations {
		broken += violation + "\n"
	}
	for _, rule := range []string{"html-has-lang", "image-alt", "color-contrast"} {
		assert.Contains(t, broken, rule)
	}
}
