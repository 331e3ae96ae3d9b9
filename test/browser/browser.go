// Package browser looks at attune's pages in Chromium: what the page loads and logs, whether it fits the window, and what
// axe-core says of its accessibility.
//
// Start finds Chromium and starts it; Look opens a page as one kind of reader sees it (View) and returns what came of that
// (Sight). The package judges nothing: tests do. Start reading with Look.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// View is how a page is looked at.
type View struct {
	// Name of the view, for files and tests.
	Name string
	// Width and Height of the window, in CSS pixels.
	Width, Height int64
	// Dark asks for dark colours.
	Dark bool
}

// Views are those of a desktop and of a phone, light and dark.
var Views = []View{
	{"desktop", 1280, 900, false}, {"desktop-dark", 1280, 900, true},
	{"phone", 390, 844, false}, {"phone-dark", 390, 844, true},
}

// Sight is what came of a look.
type Sight struct {
	// Requests are the addresses that were asked for, the page itself among them.
	Requests []string
	// Complaints are errors and warnings of the console, exceptions, and dialogs that the page opened.
	Complaints []string
	// Wide is how many CSS pixels the page is wider than its window.
	Wide int
	// Violations are the rules of axe-core that the page breaks, each with the first element that does.
	Violations []string
	// Title of the page, and how many headings of the first level it has.
	Title    string
	Headings int
	// Picture is a PNG of the whole page.
	Picture []byte
}

// Browser is a Chromium that runs.
type Browser struct{ ctx context.Context }

// calm keeps Chromium from asking for anything that the page does not ask for.
var calm = []string{"disable-background-networking", "disable-component-update", "disable-sync", "disable-quic", "disable-gpu", "no-first-run", "no-sandbox"}

// Start starts Chromium until the context ends. The program is ATTUNE_CHROMIUM, or the first of chromium,
// chromium-browser and google-chrome that is installed.
func Start(ctx context.Context) (*Browser, error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program))
	for _, flag := range calm {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, _ = chromedp.NewExecAllocator(ctx, options...) // both end with the context that the caller gave
	ctx, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	return &Browser{ctx}, nil
}

func find() (string, error) {
	if program := os.Getenv("ATTUNE_CHROMIUM"); program != "" {
		return program, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errors.New("there is no Chromium: make chromium installs Debian's, ATTUNE_CHROMIUM names another one")
}

// axe is the checker of accessibility; npm ci brings it.
const axe = "node_modules/axe-core/axe.min.js"

// mostWait is how long a page may take until it is loaded and was looked at.
const mostWait = 2 * time.Minute

// Look opens an address in a window of its own.
func (b *Browser) Look(address string, v View) (s Sight, err error) {
	checker, err := os.ReadFile(axe)
	if err != nil {
		return s, fmt.Errorf("axe-core is missing, npm ci brings it: %w", err)
	}
	ctx, cancel := chromedp.NewContext(b.ctx)
	defer cancel()
	heard := listen(ctx)
	bounded, end := context.WithTimeout(ctx, mostWait)
	defer end()
	err = chromedp.Do(bounded, asked(v), chromedp.Navigate(address), s.read(string(checker)))
	if err != nil {
		return s, fmt.Errorf("%s as %s: %w", address, v.Name, err)
	}
	s.Requests, s.Complaints = heard.said()
	return s, nil
}

// asked sets the window and the colours.
func asked(v View) chromedp.Action[chromedp.Void] {
	colours := "light"
	if v.Dark {
		colours = "dark"
	}
	return chromedp.Steps(chromedp.EmulateViewport(v.Width, v.Height), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colours}},
		})
		return err
	}))
}

// violations asks axe-core, which is in the page by then.
const violations = `axe.run().then(r => r.violations.map(v => v.id + ": " + v.help + ": " + v.nodes[0].html.slice(0, 200)))`

// read looks at the page that is open.
func (s *Sight) read(checker string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) (err error) {
		if s.Title, err = chromedp.Title()(ctx, t); err != nil {
			return err
		}
		if s.Wide, err = chromedp.Evaluate[int](`document.documentElement.scrollWidth - window.innerWidth`)(ctx, t); err != nil {
			return err
		}
		if s.Headings, err = chromedp.Evaluate[int](`document.querySelectorAll("h1").length`)(ctx, t); err != nil {
			return err
		}
		if _, err = chromedp.Evaluate[int](checker+"; 0")(ctx, t); err != nil {
			return err
		}
		if s.Violations, err = chromedp.Evaluate[[]string](violations, chromedp.EvalAwaitPromise)(ctx, t); err != nil {
			return err
		}
		s.Picture, err = chromedp.FullScreenshot(100)(ctx, t)
		return err
	})
}

// listener collects what Chromium tells of a page. It is called from goroutines of its own.
type listener struct {
	mutex                sync.Mutex
	requests, complaints []string
}

// listen until the context of the window ends.
func listen(ctx context.Context) *listener {
	l := &listener{}
	each(ctx, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) { l.requested(e.Request.URL) })
	each(ctx, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		l.complain(e.ExceptionDetails.Text + " " + e.ExceptionDetails.Exception.Description)
	})
	each(ctx, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) {
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var words []string
			for _, arg := range e.Args {
				words = append(words, string(arg.Value))
			}
			l.complain(strings.Join(words, " "))
		}
	})
	// A page that breaks its own Content-Security-Policy is told in the log alone.
	each(ctx, log.EntryAdded, func(e log.EventEntryAdded) {
		if e.Entry.Source == log.EntrySourceSecurity {
			l.complain(e.Entry.Text)
		}
	})
	each(ctx, page.JavascriptDialogOpening, func(e page.EventJavascriptDialogOpening) {
		l.complain("a dialog: " + e.Message)
		_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{}) // the page waits for it
	})
	return l
}

// each calls a function for each event of a kind.
func each[E any](ctx context.Context, kind cdp.Event[E], call func(E)) {
	events := chromedp.Events(ctx, kind)
	go func() {
		for event, err := range events {
			if err != nil {
				return
			}
			call(event)
		}
	}()
}

func (l *listener) requested(address string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.requests = append(l.requests, address)
}

func (l *listener) complain(what string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.complaints = append(l.complaints, what)
}

func (l *listener) said() (requests, complaints []string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.requests, l.complaints
}
