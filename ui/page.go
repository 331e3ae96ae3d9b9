package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"time"
)

var (
	//go:embed style.css
	style string
	//go:embed *.html
	texts embed.FS
)

// templates are the pages. style goes in unchanged, because the browser compares its hash.
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) }, // #nosec G203 -- it is a file of this package
	"utc":   utc,
	"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}).ParseFS(texts, "*.html"))

// allowed is the Content-Security-Policy. The page has its own inline style and loads nothing. The search form may
// only submit to the same origin.
var allowed = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}()

// guard sets headers that let a browser only display the page.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", allowed)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// errLarge stops the rendering of a page larger than mostPage.
var errLarge = errors.New("the page would be larger than 4 MiB")

// bounded is a buffer of at most mostPage bytes.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostPage {
		return 0, errLarge
	}
	return b.Buffer.Write(p)
}

// render executes a template. It returns errLarge if the page is too large.
func render(name string, model any) ([]byte, error) {
	var out bounded
	if err := templates.ExecuteTemplate(&out, name, model); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
