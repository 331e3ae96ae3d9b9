package fault

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Proxy serves the API server at target to a program that runs by itself; every call takes the link.
func Proxy(link *Link, target *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: link,
		// Watches are handed on as they come.
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		// A connection that is cut is cut for the program too.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}
