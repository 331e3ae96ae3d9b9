package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

// judges is an API server that knows the tokens of a scraper and of a tenant.
type judges struct {
	asked int
	err   error
}

func (j *judges) readers(clock *testingclock.FakePassiveClock) *readers {
	api := fake.NewClientset()
	api.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		j.asked++
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		switch review.Spec.Token {
		case "scraper", "scraper, an hour later", "tenant":
			name, _, _ := strings.Cut(review.Spec.Token, ",")
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: name, Groups: []string{"team"}}}
		}
		return true, review, j.err
	})
	api.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		path := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "scraper" && review.Spec.Groups[0] == "team" && path.Path == "/metrics" && path.Verb == "get"
		return true, review, nil
	})
	return newReaders(api, clock, "")
}

// scrape returns the HTTP status for a token.
func scrape(x *readers, token string) int { return scrapeFrom(x, "10.0.0.1:4711", token) }

func scrapeFrom(x *readers, address, token string) int {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.RemoteAddr = address
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	x.only(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })).ServeHTTP(w, r)
	return w.Code
}

func TestOnlyReadersReadTheMetrics(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
	j := &judges{}
	x := j.readers(clock)
	for range 3 {
		assert.Equal(t, http.StatusUnauthorized, scrape(x, ""))
		assert.Equal(t, http.StatusOK, scrape(x, "scraper"))
		assert.Equal(t, http.StatusForbidden, scrape(x, "tenant"))
		assert.Equal(t, http.StatusUnauthorized, scrape(x, "made up"))
	}
	assert.Equal(t, 3, j.asked, "once for each token")
	clock.SetTime(clock.Now().Add(judgedFor))
	assert.Equal(t, http.StatusOK, scrape(x, "scraper"))
	assert.Equal(t, 4, j.asked, "and again after a while")
}

// A client with made-up tokens loads neither the API server nor the memory, and does not lock out a scraper.
func TestMadeUpTokensHarmNobody(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	j := &judges{}
	x := j.readers(clock)
	assert.Equal(t, http.StatusOK, scrape(x, "scraper"))
	refused := 0
	for i := range 10_000 {
		if scrape(x, fmt.Sprint("made up ", i)) == http.StatusTooManyRequests {
			refused++
		}
	}
	assert.Less(t, j.asked, 1_000)
	assert.Equal(t, 10_001-j.asked, refused)
	assert.LessOrEqual(t, x.passed.Len()+x.refused.Len(), mostJudged)
	for range 15 { // longer than any verdict is valid
		clock.SetTime(clock.Now().Add(judgedFor))
		for i := range 100 {
			scrape(x, fmt.Sprint("more ", i))
		}
		assert.Equal(t, http.StatusOK, scrape(x, "scraper"))
	}
}

// TestAnExchangedTokenIsAskedAbout even while another client sends made-up tokens as fast as it can. The new token
// comes from another port of the same address as the one before.
func TestAnExchangedTokenIsAskedAbout(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	x := (&judges{}).readers(clock)
	assert.Equal(t, http.StatusOK, scrape(x, "scraper"))
	for i := range 1000 {
		scrapeFrom(x, "10.0.0.2:4711", fmt.Sprint("made up ", i))
	}
	assert.Equal(t, http.StatusTooManyRequests, scrapeFrom(x, "10.0.0.3:4711", "scraper, an hour later"), "a stranger, as far as anybody knows")
	assert.Equal(t, http.StatusOK, scrapeFrom(x, "10.0.0.1:4712", "scraper, an hour later"))

	clock.SetTime(clock.Now().Add(judgedAtMost))
	assert.False(t, x.wasLetIn("10.0.0.1"), "not for ever")
	for i := range 10 * mostJudged {
		x.letIn.Add(fmt.Sprint("10.0.1.", i), clock.Now())
	}
	assert.LessOrEqual(t, x.letIn.Len(), mostJudged)
}

func TestWhileTheAPIServerIsAwayWhoWasLetInStays(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	j := &judges{}
	x := j.readers(clock)
	assert.Equal(t, http.StatusOK, scrape(x, "scraper"))
	assert.Equal(t, http.StatusForbidden, scrape(x, "tenant"))
	j.err = errors.New("away")
	clock.SetTime(clock.Now().Add(2 * judgedFor))
	assert.Equal(t, http.StatusOK, scrape(x, "scraper"))
	assert.Equal(t, http.StatusServiceUnavailable, scrape(x, "tenant"))
	clock.SetTime(clock.Now().Add(judgedAtMost))
	assert.Equal(t, http.StatusServiceUnavailable, scrape(x, "scraper"), "not for ever")
}

// With an audience, a token for the API server reads no metrics, also if the authenticator does not know audiences.
func TestReadersNeedTheAudience(t *testing.T) {
	for name, test := range map[string]struct {
		answers []string
		want    int
	}{"for the metrics": {[]string{"attune-metrics"}, http.StatusOK}, "no audiences known": {nil, http.StatusUnauthorized}, "for another": {[]string{"api"}, http.StatusUnauthorized}} {
		api := fake.NewClientset()
		api.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
			assert.Equal(t, []string{"attune-metrics"}, review.Spec.Audiences)
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: test.answers, User: authenticationv1.UserInfo{Username: "scraper"}}
			return true, review, nil
		})
		api.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
			review.Status.Allowed = true
			return true, review, nil
		})
		x := newReaders(api, testingclock.NewFakePassiveClock(time.Now()), "attune-metrics")
		assert.Equal(t, test.want, scrape(x, "scraper"), name)
	}
}
