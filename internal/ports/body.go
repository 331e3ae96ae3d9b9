package ports

import (
	"bytes"
	"net/http"
)

// Whole is the body of a request that a server has read already.
type Whole struct{ *bytes.Buffer }

// Close implements io.Closer and does nothing.
func (Whole) Close() error { return nil }

// Body returns the body of a request, of at most so many bytes. One that is Whole is not copied but handed over,
// and has the bound of the server that read it.
func Body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if whole, is := r.Body.(Whole); is {
		body := whole.Bytes()
		*whole.Buffer = bytes.Buffer{} // the request must not keep the body in memory while it is judged
		return body, nil
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), most)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	return body.Bytes(), err
}
