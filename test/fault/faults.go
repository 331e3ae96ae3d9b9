package fault

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Before ends the program before the API server hears of the call.
func Before(kill func()) Fault {
	return func(*http.Request, func() (*http.Response, error)) (*http.Response, error) {
		kill()
		return nil, ErrCut
	}
}

// After ends the program when the API server has done what was asked, and before it can hear of that.
func After(kill func()) Fault {
	return func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		discard(send())
		kill()
		return nil, ErrCut
	}
}

// Unsent: the connection ends before the API server hears of the call.
func Unsent(*http.Request, func() (*http.Response, error)) (*http.Response, error) {
	return nil, ErrCut
}

// Lost: the API server does what was asked, and its answer is lost.
func Lost(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	discard(send())
	return nil, ErrCut
}

// Silent: the API server does what was asked and its answer never comes; the connection stands until the
// program gives up.
func Silent(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	discard(send())
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Slow calls and answers take their time; pass lets it go by.
func Slow(pass func()) Fault {
	return func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		pass()
		answer, err := send()
		pass()
		return answer, err
	}
}

// Instead answers without asking the API server. retryAfter in seconds; negative: the answer says nothing of it.
func Instead(code, retryAfter int) Fault {
	return func(r *http.Request, _ func() (*http.Response, error)) (*http.Response, error) {
		return refusal(r, code, retryAfter), nil
	}
}

// Although answers so although the API server did what was asked.
func Although(code int) Fault {
	return func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		discard(send())
		return refusal(r, code, -1), nil
	}
}

// Short ends a watch after a while, whatever it has to say.
func Short(after time.Duration) Fault {
	return func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		answer, err := send()
		if err == nil {
			body := answer.Body
			time.AfterFunc(after, func() { body.Close() })
		}
		return answer, err
	}
}

func discard(answer *http.Response, err error) {
	if err == nil {
		answer.Body.Close()
	}
}

var reasons = map[int]metav1.StatusReason{
	http.StatusConflict: metav1.StatusReasonConflict, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
}

func refusal(r *http.Request, code, retryAfter int) *http.Response {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: "a fault of the test's",
	}
	body, err := json.Marshal(status)
	if err != nil {
		panic("marshalling plain data: " + err.Error())
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if retryAfter >= 0 {
		header.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
